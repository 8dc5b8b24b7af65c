# A portfolio of three engines. The program sets depth and price of each.

ferment {
  profile  = "dev"
  data_dir = env("FERMENT_EXAMPLE_DATA", "var")
}

locals {
  bin = env("FERMENT_EXAMPLE_BIN", "../../bin")
}

plugin "a" {
  command = ["${local.bin}/plugins/chess"]

  config {
    engine = "builtin"
    depth  = tonumber(env("DEPTH_a", "1"))
  }
}

plugin "b" {
  command = ["${local.bin}/plugins/chess"]

  config {
    engine = "builtin"
    depth  = tonumber(env("DEPTH_b", "2"))
  }
}

plugin "c" {
  command = ["${local.bin}/plugins/chess"]

  config {
    engine = "builtin"
    depth  = tonumber(env("DEPTH_c", "3"))
  }
}

capability "chess/a" {
  plugin   = "a"
  provides = "chess/engine"
  cost { usd = tonumber(env("USD_a", "0.001")) }
}

capability "chess/b" {
  plugin   = "b"
  provides = "chess/engine"
  cost { usd = tonumber(env("USD_b", "0.002")) }
}

capability "chess/c" {
  plugin   = "c"
  provides = "chess/engine"
  cost { usd = tonumber(env("USD_c", "0.004")) }
}

# The rules come with each of the engines; one is enough.
capability "b/rules" {
  plugin   = "b"
  provides = "chess/rules"
  enabled  = false
}

capability "c/rules" {
  plugin   = "c"
  provides = "chess/rules"
  enabled  = false
}

# No engine knows the solution: a shallow one finds it at times, a deep one
# misses it at times.
check "right" {
  condition = result.move == request.input.solution
  message   = "played ${result.move}, not ${request.input.solution}"
}

# Two candidates are asked for each question, and no more.
dispatch "default" {
  retry { fallback = 1 }
}

intent "chess/best-move" {
  in         = "req/chess.position"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/a", "chess/b", "chess/c"]

  done { must = ["right"] }
}
