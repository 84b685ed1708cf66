// Package medusa knows where Medusa is in its image and how it is started
// (k8s/Dockerfile and k8s/docker-entrypoint.sh of thelastpickle/cassandra-medusa).
package medusa

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/agent/adopted"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/ini"
	"github.com/stategraft/stategraft/agent/process"
	"github.com/stategraft/stategraft/agent/python"
	"github.com/stategraft/stategraft/agent/render"
)

// Home is Medusa's home in its image, mode 0700 of uid 999.
const Home = "/home/cassandra"

// BackupMarker exists while Medusa makes a backup (medusa/utils.py,
// MedusaTempFile).
const BackupMarker = "/tmp/medusa_backup_in_progress"

// Image is what an image has of Medusa.
type Image struct {
	Home   string
	Python string // of the virtual environment; empty if it cannot be run
	Entry  string // the image's own entry point; empty if it cannot be run
}

// ErrNone says that the image holds no Medusa that this user can run.
var ErrNone = errors.New("this image holds no Medusa")

// Find looks for Medusa. python replaces the image's interpreter where it is
// not empty.
func Find(home, python string) (Image, error) {
	image := Image{Home: home, Python: python}
	if image.Python == "" {
		image.Python = runnable(filepath.Join(home, ".venv", "bin", "python"))
	}
	image.Entry = runnable(filepath.Join(home, "docker-entrypoint.sh"))
	if image.Python != "" || image.Entry != "" {
		return image, nil
	}
	if _, err := os.ReadDir(home); errors.Is(err, os.ErrPermission) {
		return image, fmt.Errorf("%w that user %d can run: %s belongs to another user", ErrNone, os.Getuid(), home)
	}
	return image, fmt.Errorf("%w: nothing in %s", ErrNone, home)
}

func runnable(path string) string {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return path
	}
	return ""
}

// Wrapped tells whether Serve has Medusa run in python.Serve.
func (i Image) Wrapped() bool { return i.Python != "" }

// Serve is the command of the gRPC service. Beside the configuration it tells in
// RunningFile which backup it makes and in FailedFile why the last one has failed, and it
// counts by this program's own "count".
func (i Image) Serve(config string) process.Spec {
	if !i.Wrapped() {
		return process.Spec{Path: i.Entry, Dir: i.Home, Env: i.Env(nil)}
	}
	// The service takes its second argument for the configuration's path.
	spec := i.Run("-c", python.Serve, "server.py", config)
	private := filepath.Dir(config)
	change := map[string]string{"STATEGRAFT_RUNNING": RunningFile(private), "STATEGRAFT_FAILED": FailedFile(private)}
	if agent, err := os.Executable(); err == nil {
		if _, err := os.Stat(agent); err != nil {
			agent = fmt.Sprintf("/proc/%d/exe", os.Getpid()) // an adopted container removes its copy
		}
		change["STATEGRAFT_AGENT"] = agent
	}
	spec.Env = i.Env(change)
	return spec
}

// Run is a command of the image's interpreter.
func (i Image) Run(args ...string) process.Spec {
	return process.Spec{Path: i.Python, Args: args, Dir: i.dir(), Env: i.Env(nil)}
}

func (i Image) dir() string {
	if _, err := os.Stat(i.Home); err != nil {
		return "/"
	}
	return i.Home
}

// Env is the container's environment with what Python needs: where Medusa is,
// lines as they come, and no cache beside the read-only code. change replaces
// variables, and removes those with an empty value. No name is in it twice: of
// two values Python takes the first, a shell the last.
func (i Image) Env(change map[string]string) []string {
	set := map[string]string{"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
	if _, ok := os.LookupEnv("PYTHONPATH"); !ok {
		set["PYTHONPATH"] = i.Home
	}
	maps.Copy(set, change)
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if _, replaced := set[name]; !replaced {
			env = append(env, variable)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] != "" {
			env = append(env, name+"="+set[name])
		}
	}
	return env
}

// Configure completes the medusa.ini that the agent has written by what only
// Medusa's own containers can see, the storage Secret, and writes it to a
// private directory. yaml replaces the agent's stand-in for cassandra.yaml where
// it is not empty. The error says what is missing.
func Configure(places files.Places, dir, yaml string) (path string, err error) {
	return ConfigureAs(places, dir, yaml, Override{})
}

// renderer says who writes the medusa.ini that Configure completes: a container that was
// added to a running pod shares no volume with another, and writes it itself.
func renderer() string {
	if adopted.Is() {
		return "the log of this container"
	}
	return "container stategraft-agent"
}

// Override is what one run of Medusa has otherwise.
type Override struct {
	Prefix string // of the storage; empty for the pod's own
	// OwnYaml has Medusa read a copy of cassandra.yaml. It writes tokens into it
	// where it restores another cluster's backup.
	OwnYaml bool
}

// ConfigureAs is Configure with something changed.
func ConfigureAs(places files.Places, dir, yaml string, o Override) (path string, err error) {
	content, err := os.ReadFile(places.Ini())
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s is not there yet; %s tells what it waits for", places.Ini(), renderer())
	}
	if err != nil {
		return "", fmt.Errorf("read the effective medusa.ini: %w", err)
	}
	file, err := ini.Parse(string(content))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", places.Ini(), err)
	}
	if problems := render.Check(file); len(problems) > 0 {
		return "", errors.New(strings.Join(problems, "; "))
	}
	if _, err := os.Stat(places.Credentials()); err == nil {
		render.CompleteKeyFile(file, places.Credentials())
	}
	if err := files.MakeDir(dir, 0o700, files.Owner{}); err != nil {
		return "", err
	}
	own := filepath.Join(dir, "cassandra.yaml")
	if used, _ := file.Get("cassandra", "config_file"); yaml != "" && used == places.Yaml() {
		if err := update(own, yaml); err != nil {
			return "", err
		}
		file.Set("cassandra", "config_file", own)
	} else if o.OwnYaml {
		text, err := os.ReadFile(used)
		if err != nil {
			return "", fmt.Errorf("read cassandra.yaml: %w", err)
		}
		if err := update(own, string(text)); err != nil {
			return "", err
		}
		file.Set("cassandra", "config_file", own)
	}
	if o.Prefix != "" {
		file.Set("storage", "prefix", o.Prefix)
	}
	path = filepath.Join(dir, "medusa.ini")
	return path, update(path, file.String())
}

// update writes a file where it does not read so already: Configure is called
// again and again while Medusa waits, and each write waits for the disk.
func update(path, content string) error {
	if had, err := os.ReadFile(path); err == nil && string(had) == content {
		return nil
	}
	return files.Write(path, []byte(content), 0o600, files.Owner{})
}

// Line takes the time and the level off a line of Medusa's log, which has its
// own (format "[%(asctime)s] %(levelname)s: %(message)s").
func Line(line string) (level, message string) {
	if strings.HasPrefix(line, "[") {
		if _, rest, ok := strings.Cut(line, "] "); ok {
			if level, message, ok := strings.Cut(rest, ": "); ok {
				switch level {
				case "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL":
					return level, message
				}
			}
		}
	}
	return "", line
}
