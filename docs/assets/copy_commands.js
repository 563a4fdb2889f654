// The copy button of a session copies what was typed: commands without their prompts, and without the output.
const typed = (code) => {
  if (code.textContent.startsWith(">>> ")) {
    const lines = code.textContent.split("\n").filter((line) => /^(>>>|\.\.\.)( |$)/.test(line));
    return lines.map((line) => line.slice(4)).join("\n");
  }
  if (!code.querySelector(".gp")) return null;
  const commands = code.cloneNode(true);
  commands.querySelectorAll(".gp, .go").forEach((part) => part.remove());
  return commands.textContent.replace(/\n{2,}/g, "\n").trim();
};

document.addEventListener(
  "click",
  (event) => {
    const button = event.target.closest("button[data-clipboard-target]");
    const code = button && document.querySelector(button.dataset.clipboardTarget);
    const text = code && typed(code);
    if (text) button.dataset.clipboardText = text;
  },
  true,
);
