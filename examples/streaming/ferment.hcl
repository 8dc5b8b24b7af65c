# Two talkers that answer from a script, and an intent whose text is shown while
# it comes. The first talker has to take back what it said.

ferment {
  profile  = "dev"
  data_dir = env("FERMENT_EXAMPLE_DATA", "var")
}

locals {
  bin = env("FERMENT_EXAMPLE_BIN", "../../bin")
}

plugin "talkers" {
  command = ["${local.bin}/plugins/scripted"]

  config {
    script = "talkers.edn"
  }
}

check "complete" {
  condition = try(endswith(result.text, "."), false)
  message   = "wants a sentence with its end"
}

dispatch "go-on" {
  retry {
    fallback = 1
  }
}

intent "text/respond" {
  in         = "req/text"
  out        = "res/text"
  candidates = ["talk/hasty", "talk/steady"]
  dispatch   = "go-on"
  stream     = "provisional"

  done {
    must = ["complete"]
  }
}
