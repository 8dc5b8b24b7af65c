plugin "chess" {
  command = ["bin/chess"]

  config {
    depth  = 99
    engine = "uc"
    path   = "engine"

    model "a" {
      name = 1
    }

    model "b" {}

    model {
      name = "c"
    }
  }
}

plugin "stockfish" {
  command = ["bin/chess"]

  config {
    engine  = "uci"
    model   = "a"
    api_key = "plain"

    depth {
    }
  }
}
