"""Simulated users: clicks from relevance and rankings."""

from rankloop.clicks.base import USERS as USERS
from rankloop.clicks.base import AffineModel as AffineModel
from rankloop.clicks.base import Behaviour as Behaviour
from rankloop.clicks.base import NamedUsers as NamedUsers
from rankloop.clicks.base import Users as Users
from rankloop.clicks.base import bias_of as bias_of
from rankloop.clicks.base import users as users
from rankloop.clicks.example import example_clicks as example_clicks
from rankloop.clicks.named_users import AffineUsers as AffineUsers
from rankloop.clicks.named_users import CascadeUsers as CascadeUsers
from rankloop.clicks.named_users import PaperUsers as PaperUsers
from rankloop.clicks.named_users import PositionUsers as PositionUsers
from rankloop.clicks.relevance import RELEVANCES as RELEVANCES
from rankloop.clicks.relevance import Relevance as Relevance
from rankloop.clicks.relevance import relevance as relevance
from rankloop.clicks.simulation import Impressions as Impressions
from rankloop.clicks.simulation import click_page as click_page
from rankloop.clicks.simulation import gather as gather
from rankloop.clicks.simulation import gather_log as gather_log
