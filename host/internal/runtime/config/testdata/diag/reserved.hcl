include "more.hcl" {}

cluster {
  hosts = ["a"]
}

ferment {
  profile = "dev"
}

plugin "chess" {
  command = ["bin/chess"]
}

dispatch "default" {
  strategy = "race"

  repair {
    max = 1
  }
}

intent "chess/best-move" {
  in     = "req/chess.position"
  out    = "res/chess.move+pv+eval"
  stream = "first-token"

  budget {
    max_wall = "20s"
  }
}
