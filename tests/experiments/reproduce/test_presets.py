"""What presets make of arms."""

from __future__ import annotations

import pytest

from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.figures import AUTHORS_COLTR, FIGURES, arms, figure
from rankloop.experiments.reproduce.presets import MEDIUM, PAPER, PRESETS, QUICK, Arm, Preset
from rankloop.experiments.reproduce.schedule import jobs
from rankloop.experiments.spec import RunSpec
from rankloop.models import SGD
from rankloop.training import LEARNING

ALL = list(FIGURES.values())


def test_the_papers_numbers() -> None:
    assert (PAPER.runs, PAPER.horizon, PAPER.evaluations) == (20, 10**8, 50)
    assert len(PAPER.grid) == 52
    assert (PAPER.grid[0], PAPER.grid[-1]) == (100, 10**8)
    spec = PAPER.spec(Arm(learner="intervention-aware", interventions=50), seed=7)
    assert (spec.users, spec.relevance, spec.metric, spec.start) == (
        "paper@5",
        "linear",
        "ndcg@5",
        "production",
    )
    assert (spec.learning, spec.exploration, spec.estimator) == ("paper", "as-learned", "intervention-aware")
    assert spec.supervision == "authors"
    # Deploys when it measures, and at no other time, but not at the first.
    assert spec.times == PAPER.grid
    assert spec.intervention_times == PAPER.grid[1:-1]
    settings = LEARNING["paper"].settings
    assert (settings.optimiser, settings.epochs, settings.least_gain) == (SGD(rate=0.01), 50, 0.001)


def test_the_paper_preset_deploys_when_the_authors_programs_do() -> None:
    """By hand: 52 times at 10^(2 + 6i/51), and for n interventions those closest to 10^(2 + 6j/(n + 1))."""

    def deployments(number: int, preset: Preset = PAPER) -> tuple[int, ...]:
        times = preset.spec(Arm(learner="intervention-aware", interventions=number), 0).intervention_times
        assert times != "all"
        return times

    grid = [int(10 ** (2 + 6 * i / 51)) for i in range(52)]
    for number in (5, 10, 20):
        even = [10 ** (2 + 6 * j / (number + 1)) for j in range(1, number + 1)]
        closest = tuple(min(grid, key=lambda time, at=at: abs(time - at)) for at in even)  # type: ignore[misc]
        assert deployments(number) == closest
    assert deployments(5)[0] == 873
    assert deployments(5, MEDIUM)[0] == 100
    pdgd = PAPER.spec(Arm(learner="pdgd", interventions=100), seed=0).intervention_times
    assert (pdgd[0], pdgd[-1]) == (113, 35_204_165)
    assert PAPER.model_copy(update={"horizon": 60}).grid[-1] == 60


def test_the_medium_preset_is_the_authors_with_less_data() -> None:
    spec = MEDIUM.model_copy(update={"temperature": 4.0}).spec(
        Arm(learner="affine", interventions=50), seed=3
    )
    assert (spec.data, spec.horizon) == ("synthetic(queries=6000, features=136)", 4 * 10**7)
    # One ranker for all runs, trained on 20 queries as in the authors' programs.
    assert (spec.supervision, spec.temperature, spec.production_queries) == ("authors", 4.0, None)
    coltr = MEDIUM.spec(Arm(learner=AUTHORS_COLTR, interventions="all"), seed=0)
    assert (coltr.method, coltr.horizon) == (AUTHORS_COLTR, 10**5)
    assert MEDIUM.horizons == PAPER.horizons
    assert MEDIUM.runs >= 10


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_arm_is_measured_at_the_grid_as_far_as_it_goes(preset: Preset) -> None:
    for arm in arms(ALL):
        spec = preset.spec(arm, 0)
        assert {time for time in preset.grid if time < spec.horizon} < set(spec.times)
        assert spec.horizon == preset.horizons.get(arm.kind, preset.horizon)
        if arm.interventions != "all":
            assert len(spec.intervention_times) == arm.interventions


def test_online_methods_are_the_authors() -> None:
    coltr = PAPER.spec(Arm(learner="coltr", interventions="all"), seed=0)
    assert (coltr.method, coltr.interventions, coltr.estimator, coltr.horizon) == (
        "coltr",
        "all",
        None,
        10**5,
    )
    assert coltr.times[-1] == 10**5
    pdgd = PAPER.spec(Arm(learner="pdgd", interventions=100), seed=0)
    assert (pdgd.method, len(pdgd.intervention_times), pdgd.horizon) == ("pdgd", 100, 4 * 10**7)


def test_runs_that_figures_share_are_made_once() -> None:
    all_jobs = jobs(ALL, QUICK)
    assert len({job.name for job in all_jobs}) == len(all_jobs) == 17 * 5
    assert {job.spec.seed for job in all_jobs} == {0, 1, 2, 3, 4}
    numbers = {arm.interventions for arm in FIGURES["interventions"].arms}
    assert numbers == {0, 5, 10, 20, 50, 100}
    assert {arm.name for arm in FIGURES["online"].arms} == {
        "intervention-aware-100", "pdgd-online", "biased-pdgd-online", "coltr-online",
        "coltr(remainder=logging, variance=0.447)-online",
    }  # fmt: skip
    assert {arm.name for arm in FIGURES["pdgd"].arms} > {"pdgd-online", "pdgd-0", "pdgd-100"}


def test_doubly_robust_learning_runs_as_it_does_without_options() -> None:
    """Its figures are drawn if they are named; its arms have the estimator and the exploration of a run."""
    default = figure("default-interventions")
    assert default.name not in FIGURES
    assert [arm.name for arm in default.arms] == [f"doubly-robust-{n}" for n in (0, 5, 10, 20, 50, 100)]
    spec = QUICK.spec(default.arms[3], seed=0)
    plain = RunSpec(horizon=QUICK.horizon, interventions=20, learning="doubly-robust")
    for name in ("learning", "estimator", "objective", "exploration", "caution", "evidence", "method"):
        assert getattr(spec, name) == getattr(plain, name)
    assert QUICK.spec(Arm(learner="intervention-aware", interventions=20), seed=0).learning == "paper"


def test_runs_of_a_seed_differ_in_how_they_learn_alone() -> None:
    for job in jobs(ALL, QUICK):
        setup = QUICK.setup_spec(job.spec.seed)
        for name in (
            "data",
            "fold",
            "users",
            "relevance",
            "start",
            "temperature",
            "metric",
            "learning",
            "oracle",
            "supervised",
            "seed",
        ):
            assert getattr(job.spec, name) == getattr(setup, name)


def test_names_that_are_unknown() -> None:
    with pytest.raises(RankloopError, match="unknown figure 'estimator', did you mean 'estimators'"):
        figure("estimator")
    with pytest.raises(ValueError, match="unknown learning 'papre'"):
        Preset(**{**QUICK.model_dump(), "learning": "papre"})
