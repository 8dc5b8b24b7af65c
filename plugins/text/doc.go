// Command text is the plugin for text processing without a model: it needs no
// network and no configuration, and equal input gets byte-equal output.
//
// Capability text/extractive serves :context/summarize by selecting sentences,
// text/template serves :text/render, and text/classifier serves :route/classify
// and, from a table in the configuration, :route/decide.
package main
