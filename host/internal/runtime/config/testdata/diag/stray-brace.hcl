ferment {
  profile = "dev"
}
}
