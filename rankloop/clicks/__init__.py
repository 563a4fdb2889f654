"""Users who click: relevance and rankings in, clicks out."""

from rankloop.clicks.affine import Affine as Affine
from rankloop.clicks.affine import Paper as Paper
from rankloop.clicks.base import AffineUsers as AffineUsers
from rankloop.clicks.base import Behaviour as Behaviour
from rankloop.clicks.base import Users as Users
from rankloop.clicks.base import bias_of as bias_of
from rankloop.clicks.cascade import Cascade as Cascade
from rankloop.clicks.position import Position as Position
from rankloop.clicks.registry import USERS as USERS
from rankloop.clicks.registry import users as users
from rankloop.clicks.relevance import RELEVANCES as RELEVANCES
from rankloop.clicks.relevance import Relevance as Relevance
from rankloop.clicks.relevance import relevance as relevance
from rankloop.clicks.simulation import Counts as Counts
from rankloop.clicks.simulation import Impressions as Impressions
from rankloop.clicks.simulation import gather as gather
from rankloop.clicks.simulation import gather_log as gather_log
