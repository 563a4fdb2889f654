"""How relevant documents are: one click model, guesses from features, and what clicks add to them."""

from rankloop.relevance.click_model import Calibration as Calibration
from rankloop.relevance.click_model import ClickModel as ClickModel
from rankloop.relevance.click_model import mean_relevance as mean_relevance
from rankloop.relevance.cross_fit import RelevanceGuess as RelevanceGuess
from rankloop.relevance.cross_fit import cross_fit_relevance as cross_fit_relevance
from rankloop.relevance.cross_fit import guess_by_network as guess_by_network
from rankloop.relevance.cross_fit import guess_relevance as guess_relevance
from rankloop.relevance.guesses import GUESSES as GUESSES
from rankloop.relevance.guesses import ClickTask as ClickTask
from rankloop.relevance.guesses import GuessModel as GuessModel
from rankloop.relevance.guesses import guess_model as guess_model
from rankloop.relevance.guesses import train_network_on_clicks as train_network_on_clicks
from rankloop.relevance.guesses import train_trees_on_clicks as train_trees_on_clicks
