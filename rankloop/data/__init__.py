"""Load data sets from files, or generate them from a seed."""

from rankloop.data.by_name import dataset as dataset
from rankloop.data.letor import load as load
from rankloop.data.letor import load_split as load_split
from rankloop.data.prepare import drop_constant as drop_constant
from rankloop.data.prepare import normalise_queries as normalise_queries
from rankloop.data.prepare import split_queries as split_queries
from rankloop.data.prepare import varying_features as varying_features
from rankloop.data.summary import describe as describe
from rankloop.data.synthetic import MSLR as MSLR
from rankloop.data.synthetic import YAHOO as YAHOO
from rankloop.data.synthetic import Shape as Shape
from rankloop.data.synthetic import synthetic as synthetic
