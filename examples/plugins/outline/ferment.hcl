# A plugin for Node: the interpreter is the command, and files names what it
# runs, so that a change of one of them is a change of the plugin. Its packages
# come with "npm ci", its runtime (the folder ferment) with the first command.
#
#   ferment plugin runtime
#   ferment act text/outline '{:markdown "# Bees\n## Dance"}'
ferment {
  profile = "dev" # a plugin that changes with each build has no place in a lock file
}

plugin "outline" {
  command = ["/usr/bin/node", "plugin.mjs"]
  files   = ["plugin.mjs", "ferment/index.mjs", "ferment/certificate.mjs", "ferment/plugin.proto", "ferment/goplugin.proto", "package-lock.json"]
  workdir = "."

  start_timeout = "1m" # an interpreter starts slowly on a busy machine

  # The packages of "npm ci" are not part of the lock file: only package-lock.json is.
  isolation {
    read_paths = ["node_modules"]
  }
}
