// Package wire has the JSON forms of what operators see and say: what the commands print with --json, and what the API
// answers and takes. They are a contract with scripts (docs/cli.md, docs/api.md): in an answer every key is always there,
// null where there is no value, and keys are only ever added. The tag doc describes a field in the API's description.
package wire
