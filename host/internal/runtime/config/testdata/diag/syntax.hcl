ferment {
  mode =
}

plugin "Chess" {
  command = ["bin/chess"]
}

intent "best-move" {
  in  = "req/any"
  out = "res/any"
}

check "one" { builtin = "json-valid", evidence = true }

schema "a/b" {
  spec = edn("[:map [:a")
}

schema "a/c" {
  spec = edn(<<-EOT
    [:map
      [:a :int]]]
    EOT
  )
}
