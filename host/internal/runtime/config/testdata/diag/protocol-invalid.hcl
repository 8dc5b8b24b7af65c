prompts {
  default = ["Be {styl}.", { fragment = "fat" }]

  roles = {
    voice = { fragment = "fact" }
  }

  intents = {
    "chess/best-mov" = "Play."
  }

  fragments = {
    fact = ["State facts.", { fragment = "more" }]
    more = { fragment = "fact" }
    odd  = "Nobody names me."
  }

  allowed = { coder = ["code"] }
}

plugin "chess" {
  command = ["bin/chess"]
}

intent "chess/best-move" {
  in   = "req/chess.position"
  out  = "res/chess.move+pv+eval"
  role = "voce"

  prompt {
    system   = "Play chess."
    addendum = "Well."
  }
}
