// SPDX-License-Identifier: Apache-2.0

// Command image writes the manager's image as an archive that docker load, kind load image-archive, ctr images import and crane push read.
// It needs no container runtime, and the program's platform need not be that of this machine. The image is the one that the Dockerfile
// describes. Equal input makes equal archives, because no file and no image has a time.
//
//	image -name NAME:TAG -arch arm64 -version v0.1.0 -revision COMMIT -output FILE MANAGER LICENSES
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// options are the values of the command line.
type options struct{ name, arch, version, revision, output, manager, licenses string }

func main() {
	var o options
	flag.StringVar(&o.name, "name", "", "`name` of the image, with its registry and tag")
	flag.StringVar(&o.arch, "arch", "amd64", "architecture for which the manager was compiled")
	flag.StringVar(&o.version, "version", "unknown", "the manager's version")
	flag.StringVar(&o.revision, "revision", "unknown", "commit from which the manager was compiled")
	flag.StringVar(&o.output, "output", "", "`file` to write")
	flag.Parse()
	o.manager, o.licenses = flag.Arg(0), flag.Arg(1)
	if err := o.write(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write writes the archive.
func (o options) write() error {
	tag, err := name.NewTag(o.name, name.StrictValidation)
	if err != nil {
		return err
	}
	files, err := o.files()
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config.OS, config.Architecture = "linux", o.arch
	config.Config = v1.Config{
		User:       "65532:65532",
		Entrypoint: []string{"/manager"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Cluster API Provider Portal",
			"org.opencontainers.image.source":   "https://github.com/capportal/cluster-api-provider-portal",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  o.version,
			"org.opencontainers.image.revision": o.revision,
		},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	return tarball.WriteToFile(o.output, tag, image)
}

// files returns the files of the image as an archive: the manager and the licence texts.
func (o options) files() ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := fs.WalkDir(os.DirFS(o.licenses), ".", func(file string, entry fs.DirEntry, err error) error {
		inside := path.Join("licenses", file)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: inside + "/", Mode: 0o755})
		}
		return add(w, path.Join(o.licenses, file), inside, 0o644)
	})
	err = errors.Join(err, add(w, o.manager, "manager", 0o755), w.Close())
	return archive.Bytes(), err
}

// add adds a file, which belongs to root.
func add(w *tar.Writer, file, inside string, mode int64) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: inside, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
