"""The loop with real users: rank, log, learn, prove, deploy, roll back."""

from rankloop.live.client import Client as Client
from rankloop.live.client import ServiceError as ServiceError
from rankloop.live.sealing import seal as seal
from rankloop.live.server import build_server as build_server
from rankloop.live.server import prepare as prepare
from rankloop.live.service import RankRequest as RankRequest
from rankloop.live.service import Service as Service
from rankloop.live.settings import ServiceSettings as ServiceSettings
from rankloop.live.store.database import Store as Store
from rankloop.live.store.database import open_store as open_store
