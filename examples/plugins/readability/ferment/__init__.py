"""The runtime of Ferment plugins in Python, which plugins import.

Every program of the project shares this package. "ferment plugin runtime"
replaces its files with those of the installed ferment, so edits here are lost;
your code belongs beside this folder. The documentation is in wire.py."""

from .wire import Answer, Call, Capability, Plugin, Refusal, Setting, log, need, serve

__all__ = ["Answer", "Call", "Capability", "Plugin", "Refusal", "Setting", "log", "need", "serve"]
