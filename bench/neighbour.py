"""Imports programs of this directory, whose names have no extension, as modules."""

import importlib.machinery
import importlib.util
import pathlib
import sys


def neighbour(name):
    """A program beside this one, as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(pathlib.Path(__file__).with_name(name)))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module
