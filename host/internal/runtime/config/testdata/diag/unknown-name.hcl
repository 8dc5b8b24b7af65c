plugin "chess" {
  command = ["bin/chess"]

  instances {
    max      = 1
    stand_by = 0
  }

  config {
    dpth = 3
  }
}

dispatch "default" {
  switch_on = ["runtime/crashd"]
}

check "a" {
  condition = lenght(result.text) > 1 && reslt.ok
}

locals {
  x = chess
}
