package contract

// workspaceErrors are the failures of the context engine. The part after the
// slash determines their status.
func workspaceErrors() []Row {
	refuse := func(typ string, status int, help, hint string) Row {
		return row(typ, ClassStop, SourceRequest, false, status, help, hint)
	}
	again := func(typ string, status int, help, hint string) Row {
		return row(typ, ClassRetry, SourceRequest, true, status, help, hint)
	}
	broken := func(typ, help, hint string) Row {
		return row(typ, ClassStop, SourcePlugin, false, 500, help, hint)
	}
	return []Row{
		refuse("workspace/not-found", 404, "there is no workspace in this directory", "run `ferment workspace init`"),
		refuse("workspace/exists", 409, "the directory has a workspace of another scheme", ""),
		refuse("workspace/root-denied", 403, "the directory is outside the allowed roots", "add it to allowed_roots in ferment.hcl"),
		refuse("workspace/unscanned", 404, "the workspace was never scanned", "run `ferment workspace scan`"),
		refuse("node/not-found", 404, "there is no such node", ""),
		refuse("node/ambiguous", 409, "the prefix fits several nodes", "use more digits"),
		refuse("node/deleted", 409, "the node was removed", ""),
		refuse("path/invalid", 400, "the path is not a relative path inside the workspace", ""),
		refuse("path/not-in-tree", 404, "the path was not scanned or is ignored", "the details name the rule; scan again"),
		refuse("frame/not-found", 404, "there is no such frame", ""),
		refuse("frame/no-head", 404, "the node has no frame of this type", ""),
		refuse("frame/invalid", 400, "the frame is malformed", ""),
		refuse("frame/type-invalid", 400, "the type of the frame is malformed or reserved", ""),
		refuse("frame/too-large", 413, "the frame is beyond its limit", ""),
		refuse("frame/metadata-policy", 400, "the metadata of the frame is reserved or too large", ""),
		refuse("frame/basis-mismatch", 409, "the frame was made from another state of the node", "read the node again"),
		refuse("frame/immutable", 409, "a frame cannot be overwritten", "put a new one"),
		refuse("frame/id-mismatch", 409, "the frame does not have the id that was given", ""),
		again("head/conflict", 409, "another frame became the head first", "read the head again"),
		refuse("agent/required", 400, "the operation needs an agent", "name one"),
		refuse("agent/unknown", 404, "there is no such agent", ""),
		refuse("agent/impersonation", 403, "the caller may not act as this agent", ""),
		refuse("agent/role-denied", 403, "the role of the agent does not allow this", ""),
		refuse("agent/prompt-missing", 400, "the agent lacks a prompt that the operation needs", "add it in ferment.hcl"),
		again("scan/unreadable", 400, "a part of the tree could not be read", "the details name it"),
		refuse("ignore/invalid", 400, "the ignore file cannot be used", ""),
		refuse("synthesis/not-directory", 400, "only a directory can be synthesised", ""),
		refuse("synthesis/child-not-ready", 400, "a child has no frame yet", "the details name it"),
		refuse("synthesis/too-large", 413, "the synthesis is beyond its limit", ""),
		refuse("synthesis/nondeterministic", 400, "a second run gave another result", ""),
		refuse("synthesis/custom-failed", 400, "the intent that synthesises failed", "").asCause(),
		again("regenerate/contended", 409, "the inputs kept changing", "try again when they rest"),
		refuse("compose/custom-failed", 400, "the intent that orders frames failed", "").asCause(),
		again("generate/empty", 400, "the model gave no text to keep", ""),
		again("generate/truncated", 400, "the model gave only a part of the text", ""),
		refuse("generate/binary", 400, "the file is not text", ""),
		refuse("generate/too-large", 413, "the input is beyond the limit of the model", ""),
		refuse("generate/denied", 403, "the file may not be sent to a model", "the details name the rule"),
		again("store/locked", 409, "another process writes to the workspace", "try again later"),
		row("store/io", ClassRetry, SourcePlugin, true, 500, "the disk failed or is full", "the details have the message of the system"),
		broken("store/corrupt", "the store does not match its hashes", "run `ferment workspace validate`"),
		broken("store/version", "the store was written by a newer version", "use that version"),
		refuse("store/read-only", 403, "the store takes no writes after damage", "run `ferment workspace validate`"),
		refuse("seq/unknown", 404, "the sequence number is in the future", ""),
		refuse("seq/compacted", 400, "the sequence number is no longer kept", "start from the current state"),
		refuse("import/invalid", 400, "the file to import does not verify", ""),
		refuse("import/conflict", 409, "the import contradicts what is there", ""),
		again("watch/root-lost", 400, "the watched directory disappeared", ""),
		refuse("limit/exceeded", 413, "a limit of the workspace is exceeded", "the details name it"),
	}
}
