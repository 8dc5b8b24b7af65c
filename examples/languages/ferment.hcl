# A language that does not ship: texts in Italian are judged and cut by it.edn.
# Five talkers answer from a script; four of them answer badly.

ferment {
  profile  = "dev"
  data_dir = env("FERMENT_EXAMPLE_DATA", "var")
}

locals {
  bin = env("FERMENT_EXAMPLE_BIN", "../../bin")
}

# For the checks of the host, and for {language} in prompts.
prompts {
  language_packs = ["it.edn"]
}

plugin "talkers" {
  command = ["${local.bin}/plugins/scripted"]

  config {
    script = "talkers.edn"
  }
}

# A plugin is a process of its own, and reads the file itself.
plugin "text" {
  command = ["${local.bin}/plugins/text"]

  config {
    language_packs = ["it.edn"]
  }
}

dispatch "go-on" {
  retry {
    fallback = 4
  }
}

intent "text/respond" {
  in         = "req/text"
  out        = "res/text"
  candidates = ["talk/broken", "talk/foreign", "talk/vague", "talk/listing", "talk/good"]
  dispatch   = "go-on"

  done {
    must = ["no-truncated-ending", "language-match", "sufficient-detail", "no-list-expansion"]
  }
}

intent "context/summarize" {
  in         = "req/context"
  out        = "res/context-summary"
  candidates = ["text/extractive"]
}
