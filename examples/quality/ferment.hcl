# Two portfolios: the same programs with other settings, and a price for each.

ferment {
  profile  = "dev"
  data_dir = env("FERMENT_EXAMPLE_DATA", "var")
}

locals {
  bin = env("FERMENT_EXAMPLE_BIN", "../../bin")
}

# --- chess: the deeper, the dearer -------------------------------------------

plugin "quick" {
  command = ["${local.bin}/plugins/chess"]

  config {
    engine = "builtin"
    depth  = 1
  }
}

plugin "middling" {
  command = ["${local.bin}/plugins/chess"]

  config {
    engine = "builtin"
    depth  = 2
  }
}

plugin "deep" {
  command = ["${local.bin}/plugins/chess"]

  config {
    engine = "builtin"
    depth  = 3
  }
}

capability "chess/quick" {
  plugin   = "quick"
  provides = "chess/engine"
  cost { usd = 0.004 }
}

capability "chess/middling" {
  plugin   = "middling"
  provides = "chess/engine"
  cost { usd = 0.005 }
}

capability "chess/deep" {
  plugin   = "deep"
  provides = "chess/engine"
  cost { usd = 0.006 }
}

# The rules come with each of the engines; one is enough.
capability "middling/rules" {
  plugin   = "middling"
  provides = "chess/rules"
  enabled  = false
}

capability "deep/rules" {
  plugin   = "deep"
  provides = "chess/rules"
  enabled  = false
}

# --- satisfiability: the more time, the dearer ---------------------------------

plugin "hasty" {
  command = ["${local.bin}/plugins/sat"]

  config {
    solver  = "builtin"
    timeout = "1ms"
  }
}

plugin "hurried" {
  command = ["${local.bin}/plugins/sat"]

  config {
    solver  = "builtin"
    timeout = "2ms"
  }
}

plugin "patient" {
  command = ["${local.bin}/plugins/sat"]
}

capability "sat/hasty" {
  plugin   = "hasty"
  provides = "sat/solver"
  cost { usd = 0.001 }
}

capability "sat/hurried" {
  plugin   = "hurried"
  provides = "sat/solver"
  cost { usd = 0.002 }
}

capability "sat/patient" {
  plugin   = "patient"
  provides = "sat/solver"
  cost { usd = 0.0025 }
}

capability "hurried/verifier" {
  plugin   = "hurried"
  provides = "sat/verifier"
  enabled  = false
}

capability "patient/verifier" {
  plugin   = "patient"
  provides = "sat/verifier"
  enabled  = false
}

# --- what an answer has to be ----------------------------------------------------

# The move was proven, or comes from a search that is worth the name.
check "deep-enough" {
  condition = result.depth >= 3
  message   = "searched ${result.depth} plies deep"
}

check "decided" {
  condition = result.status != "unknown"
  message   = "the formula is not decided"
}

check "model-holds" {
  intent  = "sat/verify"
  applies = result.status == "sat"
}

# Two candidates are asked for each question, and no more.
dispatch "default" {
  retry { fallback = 1 }
}

intent "chess/best-move" {
  in         = "req/chess.position"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/quick", "chess/middling", "chess/deep"]

  done { must = ["deep-enough"] }

  # Without a floor nothing is done about bad answers.
  quality {
    window        = 10
    min_pass_rate = tonumber(env("FERMENT_EXAMPLE_FLOOR", "0"))
    swap_to       = "chess/deep"
  }
}

intent "sat/solve" {
  in         = "req/sat.solve"
  out        = "res/sat.solve"
  candidates = ["sat/hasty", "sat/hurried", "sat/patient"]

  done { must = ["decided", "model-holds"] }
}
