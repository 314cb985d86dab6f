"""Plans of the configuration search, run on this machine by the decoder that their exports hold."""

from .plan import config_of, is_configured
from .run import ConfiguredRun, run_configured

__all__ = ["ConfiguredRun", "config_of", "is_configured", "run_configured"]
