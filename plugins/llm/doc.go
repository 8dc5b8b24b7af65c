// Command llm is the plugin of language models: it asks one account at one
// provider, or one model server, and streams what comes.
//
// It speaks the interfaces of OpenAI and of the many servers that copy it, of
// Anthropic, and of Ollama. Each model block of its configuration is one
// capability. One call is one request: the plugin never asks twice, follows no
// redirect and reads no environment; trying again is for the host, whose ledger
// sees every attempt. README.md says how it is configured and what comes back.
package main
