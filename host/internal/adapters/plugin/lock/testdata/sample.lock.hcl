# written by "ferment plugin lock"; commit this file
lock {
  format = 1
}

plugin "chess" {
  version  = "1.0.0"
  protocol = "ferment.plugin.v1"
  needs    = []

  binary "linux/amd64" {
    hash = "b3:77aa0c1e5f0d4c3b9a8877665544332211ffeeddccbbaa998877665544332211"
  }

  capability "chess/engine" {
    effects = ["none"]
    intents = ["chess/best-move"]
  }

  capability "chess/rules" {
    effects = ["none"]
    intents = ["chess/perft", "chess/verify-move"]
  }
}

plugin "greeter" {
  version  = "0.1.0"
  protocol = "ferment.plugin.v1"
  needs    = []

  binary "linux/amd64" {
    hash = "b3:1b02e6c7a9d84f5500112233445566778899aabbccddeeff0011223344556677"
  }

  file "greeter/main.py" {
    hash = "b3:5c3e9d20b7f6418a00aa11bb22cc33dd44ee55ff66778899aabbccddeeff0011"
  }

  capability "demo/greeter" {
    effects = ["none"]
    intents = ["text/respond"]
  }
}
