"""Check whether your own classes keep the contract of their kind; `ContractError` if they do not."""

from rankloop.checks.contract import ContractError as ContractError
from rankloop.checks.contract import check_value as check_value
from rankloop.checks.estimators import check_estimator as check_estimator
from rankloop.checks.loop import check_evidence_rule as check_evidence_rule
from rankloop.checks.loop import check_exploration as check_exploration
from rankloop.checks.methods import check_method as check_method
from rankloop.checks.metrics import check_metric as check_metric
from rankloop.checks.models import check_model as check_model
from rankloop.checks.models import check_model_spec as check_model_spec
from rankloop.checks.users import check_relevance as check_relevance
from rankloop.checks.users import check_users as check_users
