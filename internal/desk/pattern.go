package desk

import "strings"

var likeSpecials = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Pattern is a pattern of SQL's like, with \ as its escape, for text anywhere, taken literally.
func Pattern(text string) string { return "%" + likeSpecials.Replace(text) + "%" }
