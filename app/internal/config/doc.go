// Package config is what a program can be told: by a file in YAML, by the environment, and by flags.
//
//	settings, err := config.Load(config.Sources{File: "pawl.yaml", Environ: os.Environ()})
//
// A flag wins over the environment, the environment over the file, the file over what the program itself brings, and
// that over the defaults. Everything that is wrong is reported at once, each with the line that it stands in; nothing
// is taken then. Settings is the list of all keys: its tags name them, explain them, and say which of them take effect
// without a restart; docs/config.md is made of it.
package config
