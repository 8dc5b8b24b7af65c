// Command llm is the plugin for language models: it calls one account of one
// provider, or one model server, and streams the answers.
//
// It supports the interfaces of OpenAI and of compatible servers, of Anthropic,
// and of Ollama. Each model block of its configuration is one capability. One
// call is one request: the plugin never retries, follows no redirect and reads
// no environment; retries belong to the host, whose ledger records every
// attempt. README.md describes the configuration and the answers.
package main
