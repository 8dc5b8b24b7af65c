# written by "ferment plugin lock"; commit this file
lock {
  format = 1
}

plugin "mine" {
  version  = "1.0.0"
  protocol = "ferment.plugin.v1"
  needs    = []

  binary "linux/amd64" {
    hash = "b3:HASH"
  }

  capability "t/careful" {
    effects = ["none"]
    intents = ["t/say"]
  }

  capability "t/plain" {
    effects = ["none"]
    intents = ["t/say"]
  }
}

plugin "text" {
  version  = "1.0.0"
  protocol = "ferment.plugin.v1"
  needs    = []

  binary "linux/amd64" {
    hash = "b3:HASH"
  }

  capability "text/classifier" {
    effects = ["none"]
    intents = ["route/classify", "route/decide"]
  }

  capability "text/extractive" {
    effects = ["none"]
    intents = ["context/summarize"]
  }

  capability "text/template" {
    effects = ["none"]
    intents = ["text/render"]
  }
}
