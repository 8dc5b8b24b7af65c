# A workspace with an agent and a view of its own. The texts about the notes lie
# in notes/.ferment; the plan context.edn writes one note of its own.

ferment {
  data_dir  = "../../var/context"
  lock_file = "../../var/context.lock.hcl"
  profile   = "dev"
}

plugin "workspace" {
  command = ["../../bin/plugins/workspace"]

  isolation {
    read_paths  = ["notes"]
    write_paths = ["notes/.ferment"]
  }

  config {
    allowed_roots = ["notes"]
    default_agent = "synthesis"
    never_send    = [".env*", "*.key", "private/"]

    # It describes files with the capability that it names first. Any model
    # capability can stand there.
    agent "librarian" {
      role  = "writer"
      model = "text/extractive"

      prompts {
        system    = "You describe notes for people who look for one."
        file      = "{content}"
        directory = "{frames}"
      }
    }

    # What a reader wants to see first: the summaries, then everything else.
    view "overview" {
      max_frames = 10
      ordering   = "type"
      order      = ["summary", "digest"]
    }
  }
}

plugin "text" {
  command = ["../../bin/plugins/text"]
}

plugin "tools" {
  command = ["../../bin/plugins/tools"]
}

effects {
  scope "db/read" { enabled = true }

  scope "db/write" { enabled = true }

  scope "fs/write" {
    enabled = true
    roots   = ["notes"]
    allow   = ["garden"]
  }
}

intent "context/summarize" {
  in         = "req/context"
  out        = "res/context-summary"
  candidates = ["text/extractive"]
}
