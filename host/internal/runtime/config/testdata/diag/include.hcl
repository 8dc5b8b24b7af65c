schema "a/b" {
  spec = edn(file("nowhere.edn"))
}

schema "a/c" {
  spec = edn(file("../secret.edn"))
}

schema "a/d" {
  spec = edn(file("bin"))
}
