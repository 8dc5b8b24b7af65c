# A plugin in Python: the interpreter is the command, and files names what it
# runs, so that a change of one of them is a change of the plugin. Its runtime (the
# folder ferment) comes with the first command.
#
#   ferment plugin runtime
#   ferment act text/readability '{:text "Bees dance. Others read it."}'
ferment {
  profile = "dev" # a plugin that changes with each build has no place in a lock file
}

plugin "readability" {
  command = ["/usr/bin/python3", "plugin.py"]
  files   = ["plugin.py", "ferment/__init__.py", "ferment/wire.py", "ferment/blake3.py", "ferment/plugin_pb2.py", "ferment/goplugin_pb2.py"]
  workdir = "."

  start_timeout = "1m" # an interpreter starts slowly on a busy machine

  config {
    max_grade = 10
  }
}

# The summaries that its titles are made of.
plugin "text" {
  command = ["../../../bin/plugins/text"]
}
