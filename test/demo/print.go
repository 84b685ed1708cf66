package main

import (
	"fmt"
	"io"
	"strings"
)

// printer writes what people read: numbered headings, and rows in columns.
type printer struct {
	w       io.Writer
	chapter int
}

func (p *printer) say(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

func (p *printer) heading(text string) {
	p.chapter++
	p.say("\n%d. %s\n", p.chapter, text)
}

// command shows what was typed, so that it can be typed again elsewhere.
func (p *printer) command(args ...string) { p.say("   $ kubectl %s", strings.Join(args, " ")) }

func (p *printer) row(label, text string) { p.say("   %-14s %s", label, text) }

// indent moves the lines of a program's output to the right.
func (p *printer) indent(text string) {
	for line := range strings.Lines(text) {
		p.say("     %s", strings.TrimRight(line, "\n"))
	}
}
