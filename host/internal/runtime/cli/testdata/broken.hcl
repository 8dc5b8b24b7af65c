# Everything in here is wrong, each thing in its own way.
ferment {
  data_dirr = "var"
  seed      = -1
}

plugin "text" {
  command = ["bin/plugins/text"]

  restart {
    maxx = 3
  }

  instances {
    max = 4
  }
}

dispatch "twice" {}

dispatch "twice" {}

capability "text/mine" {
  plugin = "texd"
}

check "a" {
  condition = reslt.ok
}

intent "text/render" {
  in         = "req/rendr"
  out        = "res/text"
  candidates = ["text/templat"]

  done { must = ["schema-vald"] }
}

cluster {}
