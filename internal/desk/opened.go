package desk

import (
	"context"
	"log/slog"
)

// Opened writes the one line about a store that was opened: where it is, and at which version its tables are. found is the
// version that they had before; 0: there were none, and the store was made.
func Opened(log *slog.Logger, found, tables int, where ...slog.Attr) {
	message, attrs := "store opened", append(where, slog.Int("tables", tables))
	switch {
	case found == 0:
		message = "store made"
	case found < tables:
		message, attrs = "store brought up to date", append(attrs, slog.Int("from", found))
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, message, attrs...)
}
