package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/images/archive"
)

const (
	cassandraVersion = "5.0.6"
	// driverVersion is the CQL driver that the image's cqlsh uses.
	driverVersion = "3.29.2"
	javaPackage   = "openjdk-17-jre-headless"
	// mavenPlugin fetches a list of artifacts.
	mavenPlugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
)

// pom asks for Cassandra's libraries. Maven Central has them, and no archive
// with the scripts and the configuration.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rig</groupId><artifactId>rig</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>` + cassandraVersion + `</version></dependency></dependencies>
</project>
`

func cassandraRecipe() recipe {
	return recipe{
		image: archive.Image{
			Name:       Cassandra,
			Entrypoint: []string{"docker-entrypoint.sh"},
			Cmd:        []string{"cassandra", "-f"},
			Env: []string{"PATH=/opt/cassandra/bin:/opt/java/openjdk/bin:/usr/local/bin:/usr/bin:/usr/sbin:/bin",
				"CASSANDRA_HOME=/opt/cassandra", "CASSANDRA_CONF=/etc/cassandra", "CASSANDRA_VERSION=" + cassandraVersion,
				"JAVA_HOME=/opt/java/openjdk", "LANG=C.UTF-8"},
			Volumes: []string{"/var/lib/cassandra"},
		},
		inputs: append(contents("files/cassandra"), debianRecipe, strings.Join(base, " "), javaPackage, pom, driverVersion, "layout 1", bitnamiLayout),
		build:  buildCassandra,
		owner:  own("etc/cassandra", "var/lib/cassandra", "var/log/cassandra"),

		variants: []variant{bitnami()},
	}
}

func buildCassandra(ctx context.Context, root, work string) error {
	if _, err := os.Stat("/usr/bin/mvn"); err != nil {
		if err := cluster.AptInstall(ctx, "maven"); err != nil {
			return err
		}
	}
	if err := debianRoot(ctx, root, work, javaPackage, "python3"); err != nil {
		return err
	}
	if err := addUser(root, "/var/lib/cassandra"); err != nil {
		return err
	}
	for dir, mode := range map[string]os.FileMode{
		"opt/cassandra/bin": 0o755, "opt/cassandra/lib": 0o755, "opt/cassandra/share": 0o755, "opt/java": 0o755,
		"etc/cassandra": 0o777 | os.ModeSticky, "var/lib/cassandra": 0o777 | os.ModeSticky, "var/log/cassandra": 0o777 | os.ModeSticky,
	} {
		path := filepath.Join(root, dir)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("making /%s: %w", dir, err)
		}
		if err := os.Chmod(path, mode); err != nil {
			return fmt.Errorf("making /%s: %w", dir, err)
		}
	}
	java, err := filepath.Glob(filepath.Join(root, "usr/lib/jvm/java-17-openjdk-*"))
	if err != nil || len(java) == 0 {
		return fmt.Errorf("package %s has no /usr/lib/jvm/java-17-openjdk-*", javaPackage)
	}
	for link, to := range map[string]string{
		"opt/java/openjdk":   "/usr/lib/jvm/" + filepath.Base(java[0]),
		"opt/cassandra/conf": "/etc/cassandra", "opt/cassandra/data": "/var/lib/cassandra", "opt/cassandra/logs": "/var/log/cassandra",
		"docker-entrypoint.sh": "usr/local/bin/docker-entrypoint.sh",
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			return fmt.Errorf("linking /%s: %w", link, err)
		}
	}
	conf, err := files.ReadDir("files/cassandra/conf")
	if err != nil {
		return err
	}
	for _, f := range conf {
		if err := install(root, "etc/cassandra/"+f.Name(), "files/cassandra/conf/"+f.Name(), 0o644); err != nil {
			return err
		}
	}
	for to, from := range map[string]string{
		"opt/cassandra/bin/cassandra": "cassandra", "opt/cassandra/bin/nodetool": "nodetool", "opt/cassandra/bin/cqlsh": "cqlsh",
		"opt/cassandra/tools/bin/sstablemetadata": "sstablemetadata",
		"usr/local/bin/docker-entrypoint.sh":      "docker-entrypoint.sh", "usr/local/bin/gosu": "gosu",
	} {
		if err := install(root, to, "files/cassandra/bin/"+from, 0o755); err != nil {
			return err
		}
	}
	// Without its configuration folder, as in another container, nodetool works.
	if err := install(root, "opt/cassandra/share/jvm17-server.options", "files/cassandra/conf/jvm17-server.options", 0o644); err != nil {
		return err
	}
	if err := fetchJars(ctx, work, filepath.Join(root, "opt/cassandra/lib")); err != nil {
		return err
	}
	tools, err := venv(ctx, work)
	if err != nil {
		return err
	}
	_, err = run(ctx, work, nil, tools, "-m", "pip", "install", "-q", "--target", filepath.Join(root, "opt/cassandra/pylib"),
		"--only-binary=:all:", "cassandra-driver=="+driverVersion)
	return err
}

// fetchJars puts Cassandra's libraries into a folder, those of other systems
// aside.
func fetchJars(ctx context.Context, work, lib string) error {
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), []byte(pom), 0o644); err != nil {
		return fmt.Errorf("writing pom.xml: %w", err)
	}
	if _, err := run(ctx, work, nil, "mvn", "-B", "-q", mavenPlugin+":copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+lib); err != nil {
		return err
	}
	jars, err := filepath.Glob(filepath.Join(lib, "*.jar"))
	if err != nil {
		return err
	}
	for _, jar := range jars {
		for _, other := range []string{"-osx-", "-windows-", "kqueue", "native-macos", "riscv64"} {
			if strings.Contains(filepath.Base(jar), other) {
				_ = os.Remove(jar)
			}
		}
	}
	return nil
}
