package workload

import (
	"path"
	"strings"
)

// candidate is a container with what speaks for its being the database.
//
// Names are weak evidence, structure is strong: a container is only taken for
// a database when its score reaches threshold and something other than its
// names (a port, a mount, a probe, a known image) is part of it.
type candidate struct {
	index  int
	score  int
	server bool // something other than a name spoke for it
	whole  bool // a server by itself: image, data and ports
	facts  []string
}

func (c *candidate) add(points int, server bool, fact string) {
	if c.facts == nil {
		c.facts = make([]string, 0, 8)
	}
	c.score += points
	c.server = c.server || server
	c.facts = append(c.facts, fact)
}

// threshold: ports alone (9042, 7000) make 4, and Stargate has those.
const threshold = 5

func (c candidate) good() bool { return c.score >= threshold && c.server }

// best gives the candidate with the highest score, and whether another cannot be
// told from it: one as good, or one that is a server by itself as well.
func best(candidates []candidate) (winner candidate, tie bool) {
	winner = candidate{index: -1}
	for _, c := range candidates {
		if winner.index < 0 || c.score > winner.score {
			winner = c
		}
	}
	for _, c := range candidates {
		if c.index == winner.index || !c.good() {
			continue
		}
		if winner.score-c.score < 2 || winner.whole && c.whole {
			tie = true
		}
	}
	return winner, tie
}

// program is the name of what the container is told to run, without its path;
// empty where the image decides.
func program(c *Container) string {
	argv := c.Command
	if len(argv) == 0 {
		argv = c.Args
	}
	for len(argv) > 0 {
		name := path.Base(argv[0])
		switch name {
		case "tini", "dumb-init", "--", "-g", "-s", "exec", "env", "nohup", "docker-entrypoint.sh", "gosu", "su-exec":
			argv = argv[1:]
			continue
		}
		return name
	}
	return ""
}

// script is what a shell of the container is told to run, if it runs a shell.
func script(c *Container) string {
	argv := append(append([]string{}, c.Command...), c.Args...)
	if len(argv) < 2 {
		return ""
	}
	switch path.Base(argv[0]) {
	case "sh", "bash", "dash", "ash":
		return argv[len(argv)-1]
	}
	return ""
}

// idle and client programs: an image of the database that runs one of these is
// a toolbox, a schema job or a client, not the database.
var clientPrograms = map[string]bool{
	"sleep": true, "tail": true, "cat": true, "cqlsh": true, "nodetool": true, "sstableloader": true,
	"cassandra-stress": true, "dsbulk": true, "pause": true, "true": true, "cron": true, "crond": true,
}

// shellWords are commands of a script that say nothing about what it is for.
var shellWords = map[string]bool{
	"echo": true, "printf": true, "set": true, "export": true, "trap": true, "[": true, "test": true, "cd": true, "kill": true,
	"wait": true, "exit": true, "break": true, "continue": true, "date": true, "mkdir": true, "chown": true, "chmod": true,
	"cp": true, "mv": true, "rm": true, "ln": true, "ls": true, "sysctl": true, "ulimit": true, "done": true, "fi": true, "esac": true,
	"grep": true, "sed": true, "awk": true, "find": true, "tar": true, "}": true, ":": true, "read": true, "case": true, "for": true,
}

// runsClient tells that the container has its image run something else than
// the database: in its command, or in a shell script of nothing but clients. A
// script that runs what nobody here knows (start.sh; tail -f log) may start the
// database; the rest of the container has to tell.
func runsClient(c *Container) (string, bool) {
	if name := program(c); clientPrograms[name] {
		return name, true
	}
	client, unknown := "", false
	for _, line := range strings.Split(script(c), "\n") {
		if comment := strings.Index(" "+line, " #"); comment >= 0 {
			line = line[:comment]
		}
		for _, command := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(";&|()`", r) }) {
			name := path.Base(firstCommand(command))
			switch {
			case clientPrograms[name]:
				client = name
			case name == "cassandra" || name == "dse" || strings.HasSuffix(name, ".sh") || strings.HasPrefix(name, "docker-entrypoint"):
				return "", false
			case name != "." && !shellWords[name]:
				unknown = true
			}
		}
	}
	return client, client != "" && !unknown
}

// firstCommand gives the program of a simple command of the shell: the first
// word that is no keyword, no assignment and no program that starts another.
func firstCommand(command string) string {
	for _, word := range strings.Fields(command) {
		word = strings.Trim(word, `"'`)
		switch word {
		case "", "if", "then", "else", "elif", "do", "while", "until", "!", "{", "exec", "nohup", "sudo", "time", "-c":
			continue
		}
		if name, _, ok := strings.Cut(word, "="); ok && !strings.ContainsAny(name, "/.$") {
			continue
		}
		return word
	}
	return ""
}

// startsAsImage tells that nothing but the image says what the container runs.
func startsAsImage(c *Container) bool {
	name := program(c)
	return name == "" || name == "cassandra" || name == "dse"
}

// probesRun tells whether a probe or the stop hook runs the program.
func probesRun(c *Container, name string) bool {
	for _, probe := range []*Probe{c.Readiness, c.Liveness, c.Startup} {
		if probe != nil && mentions(probe.Exec.Command, name) {
			return true
		}
	}
	return c.Lifecycle != nil && c.Lifecycle.PreStop != nil && mentions(c.Lifecycle.PreStop.Exec.Command, name)
}

func mentions(command []string, name string) bool {
	for _, arg := range command {
		if strings.Contains(arg, name) {
			return true
		}
	}
	return false
}

func (c *Container) declares(ports ...int32) bool {
	for i := range c.Ports {
		for _, port := range ports {
			if c.Ports[i].ContainerPort == port && c.Ports[i].Protocol != "UDP" {
				return true
			}
		}
	}
	return false
}
