ferment {
  mode         = "hybird"
  max_parallel = 0
  max_depth    = 65
  requires     = ">= 2.0"
}

plugin "chess" {
  command       = ["bin/chess"]
  version       = "< 1.0"
  start_timeout = "1ms"
  max_message   = "1GiB"

  restart {
    backoff = "40s"
  }

  health {
    timeout = "5s"
  }
}

capability "chess/engine" {
  plugin  = "chess"
  effects = ["fs/write"]
}

plugin "stockfish" {
  command = []
}
