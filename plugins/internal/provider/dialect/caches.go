package dialect

// caching are the presets whose servers keep the beginning of a prompt for the next
// one by themselves, so that a mark would change nothing.
func caching() []struct{ Preset, Source, Date string } {
	return []struct{ Preset, Source, Date string }{
		{"openai", "OpenAI, prompt caching guide: automatic from 1,024 tokens on", "2026-11-25"},
		{"openai-responses", "OpenAI, prompt caching guide: as for chat completions", "2026-11-25"},
		{"ollama", "ollama, llm/llama_server.go: models run in llama-server, see there", "2026-08-21"},
		{"llama-server", "llama.cpp, tools/server/README.md: cache_prompt is true unless written", "2026-11-25"},
		{"vllm", "vLLM, automatic prefix caching: enabled by default", "2026-11-25"},
		{"mlx", "mlx-lm, server.py: LRUPromptCache finds the longest common beginning", "2026-11-25"},
	}
}

// caches reports whether the servers of a preset cache prompts by themselves.
func (p Preset) caches() bool {
	for _, row := range caching() {
		if row.Preset == p.Name {
			return true
		}
	}
	return false
}
