set -o errexit
/usr/local/pai/runtime git-move '--depth=1' -- '/path/to/gitsrc' '/code'
