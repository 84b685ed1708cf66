package workload

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clip keeps a text within a number of bytes, cut where a character ends.
func Clip(text string, limit int) string {
	const more = "…"
	if len(text) <= limit {
		return text
	}
	cut := max(limit-len(more), 0)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}

// Printable replaces what neither a header nor a terminal shows.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return '?'
		}
		return r
	}, text)
}

// Short makes what a user wrote fit to be quoted in a message.
func Short(text string) string {
	const limit = 64
	return Clip(Printable(Clip(text, 2*limit)), limit)
}
