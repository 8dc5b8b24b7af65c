ferment {
  profile = "dev"
}
/* the rest is
