plugin "chess" {
  command = ["bin/chess"]

  config {
    api_key = secret("env:CHESS_KEY")
  }
}

plugin "stockfish" {
  command = ["bin/chess"]

  config {
    api_key = secret("file:no-key")
  }
}
