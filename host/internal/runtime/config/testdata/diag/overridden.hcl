schema "res/any" {
  spec = edn("[:map [:text :string]]")
}

check "max-chars" {
  condition = length(try(result.text, "")) < 100
}
