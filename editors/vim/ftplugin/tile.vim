" The tile language: comments and indentation; `gq` and `=` by tilec fmt.
if exists("b:did_ftplugin")
  finish
endif
let b:did_ftplugin = 1
setlocal commentstring=//\ %s comments=s1:/*,mb:*,ex:*/,:// expandtab shiftwidth=4 softtabstop=4 cindent cinoptions=+0,(0
if executable("tilec")
  setlocal equalprg=tilec\ fmt\ -
endif
let b:undo_ftplugin = "setlocal commentstring< comments< expandtab< shiftwidth< softtabstop< cindent< cinoptions< equalprg<"
