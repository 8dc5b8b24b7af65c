package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// onePlugin is the part of the shipped configuration that the act of oneAct needs.
const onePlugin = `ferment {
  profile   = "dev"
  data_dir  = "var"
  lock_file = "bin/ferment.lock.hcl"
}

plugin "text" {
  command = ["bin/plugins/text"]
}

intent "text/render" {
  in          = "req/text.render"
  out         = "res/text.render"
  candidates  = ["text/template"]
  constraints = { max_chars = 12000 }
}
`

// oneAct compares "ferment act" as a whole process under the shipped configuration with the same
// act under onePlugin.
func oneAct(p pace) ([]row, error) {
	shipped, err := os.ReadFile("../../ferment.hcl")
	if err != nil {
		return nil, err
	}
	var sites [2]*daemonSite
	for i, text := range []string{string(shipped), onePlugin} {
		if sites[i], err = newDaemonSite(""); err != nil {
			return nil, err
		}
		defer sites[i].close()
		if err := os.WriteFile(filepath.Join(sites[i].dir, "ferment.hcl"), []byte(text), 0o600); err != nil {
			return nil, err
		}
		if err := os.Symlink(filepath.Dir(sites[i].ferment), filepath.Join(sites[i].dir, "bin")); err != nil {
			return nil, err
		}
	}
	var took [2][]time.Duration
	for round := range p.rounds + 1 {
		for i, s := range sites {
			cmd := exec.Command(s.ferment, "act", "text/render", `{:template "{name}" :data {:name "Ada"}}`)
			cmd.Dir, cmd.Env = s.dir, s.env
			began := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("ferment act: %w\n%s", err, out)
			}
			if round > 0 { // the first round describes every plugin
				took[i] = append(took[i], time.Since(began))
			}
		}
	}
	return []row{against("ferment act, shipped file", median(took[0]), "file of one plugin", median(took[1]), 1.3)}, nil
}
