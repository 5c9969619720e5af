// SPDX-License-Identifier: Apache-2.0

// Command prebuilt takes programs out of the container images in which their projects release them, and puts them into bin/. make kube runs
// it before it compiles anything. PREBUILT says what it does:
//
//	make demo               # take what can be had, and compile the rest
//	make demo PREBUILT=0    # compile everything
//	make demo PREBUILT=1    # fail if a program cannot be had
//
// images.txt lists the images. To use a mirror, or digests of your own, copy this file and name the copy:
//
//	make demo PREBUILT_FLAGS='-images mirror.txt'
//
// All requests use TLS, and the registry must not ask for a login. A layer is used only if its SHA-256 is that of the image's manifest, and a
// manifest only if its SHA-256 is the pinned digest. Without a pin, the registry says which manifest belongs to the tag. The command prints
// which images these were.
//
// A program gets its name in bin/ only when it is complete and checked. So an interrupted or wrong download leaves nothing. The first error
// ends the attempt, and the command prints the programs that it has got to stdout, for the scripts that compile the others.
package main
