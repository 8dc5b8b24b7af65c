plugin "chess" {
  command = ["bin/chess"]
}

capability "chess/stockfish" {
  plugin   = "chess"
  provides = "chess/engine"
}

capability "chess/other" {
  plugin   = "chess"
  provides = "chess/enginee"
}

capability "chess/third" {
  plugin = plugin.ches
}

intent "chess/best-move" {
  in         = "req/chess.positon"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/stockfsh", "chess/engine"]
  dispatch   = dispatch.quality
  checks     = ["shrt", check.short]

  done {
    must = ["schema-vald"]
  }
}

check "short" {
  builtin = "max-char"
}

check "tests" {
  intent = "code/tests"
}

locals {
  a = local.nope
  b = local.nope
}
