// Scripted answers calls from a script, so that plans and policies can be tried without models and
// with predictable answers. One process provides every capability of the script; each has steps
// that are taken in the order of its calls, also across restarts of the process.
//
// The script is EDN, in the file named by the setting script or in the text of the setting inline:
//
//	{:capabilities
//	 {:llm/voice-a
//	  {:kind :llm :intents #{:text/respond} :in-schema :req/text :out-schema :res/text
//	   :steps [{:value {:text "first answer"}}
//	           {:error {:type :eval/low-score}}
//	           {:template {:text "ECHO:{{input.prompt}}"}}
//	           {:stream ["a" "b"] :chunk-ms 5}
//	           {:crash :sigkill}]
//	   :then :repeat-last}}}
//
// Every field of the capability metadata can be given, without its namespace. A step has at most
// one of :value, :error, :template, :plan (with :bindings), :raw, :ask, :crash and :hang. Before
// it, :delay-ms waits and :stream sends pieces, with :chunk-ms after each; a step with :stream
// alone answers with the whole text. :ask makes a host call and returns its answer: {:intent i
// :input m} with values in m filled like those of a template; :handle is the path of a capability
// handle in the input, :cap/ref names a capability whose handle the call may not have, :times
// repeats the call, and :stream true forwards the pieces.
//
// :usage and :meta are those of the answer. :then defines the steps after the last one:
// :repeat-last (the default), :cycle, or a step.
package main

import "github.com/fermenthq/ferment/sdk"

func main() { sdk.Serve(newPlugin()) }
