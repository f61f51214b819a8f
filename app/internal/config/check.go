package config

func (l *loader) check(builtIn bool) {}
